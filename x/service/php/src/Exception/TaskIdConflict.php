<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The queue has a task with this ID but another type or payload. */
class TaskIdConflict extends Conflict
{
}
