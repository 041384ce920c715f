<?php

declare(strict_types=1);

namespace Asynq;

/** Thrown by a handler to archive the task, even if it has retries left. */
class Abandon extends \RuntimeException
{
}
