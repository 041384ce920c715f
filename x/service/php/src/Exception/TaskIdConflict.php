<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The queue has another task with this ID: of another type, or with another payload. */
class TaskIdConflict extends Conflict
{
}
