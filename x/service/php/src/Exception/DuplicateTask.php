<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** Another task with the same type and payload holds the uniqueness lock. */
class DuplicateTask extends Conflict
{
}
