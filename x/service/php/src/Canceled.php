<?php

declare(strict_types=1);

namespace Asynq;

/**
 * Thrown by Task::check when the handler should stop. Do not catch it: the worker fails the
 * attempt.
 */
class Canceled extends \RuntimeException
{
}
