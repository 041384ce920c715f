<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The task, queue, workflow, node or result does not exist. */
class NotFound extends ProblemException
{
}
