<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The task's state does not allow it: an active task cannot be deleted, for one. */
class WrongState extends Conflict
{
}
