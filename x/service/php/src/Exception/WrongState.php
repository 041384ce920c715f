<?php

declare(strict_types=1);

namespace Asynq\Exception;

/**
 * The state of the task or workflow does not allow the change; for example, active tasks cannot be
 * deleted.
 */
class WrongState extends Conflict
{
}
