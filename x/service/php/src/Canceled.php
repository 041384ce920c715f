<?php

declare(strict_types=1);

namespace Asynq;

/** Task::check throws it when the handler should stop. Let it pass: the worker fails the attempt. */
class Canceled extends \RuntimeException
{
}
