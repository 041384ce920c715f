<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The lease has expired: stop processing the task. Another worker receives it. */
class LeaseLost extends Conflict
{
}
