<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The lease has ended: stop working on the task. Another worker gets it. */
class LeaseLost extends Conflict
{
}
