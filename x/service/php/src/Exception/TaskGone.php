<?php

declare(strict_types=1);

namespace Asynq\Exception;

/**
 * The task ended without a retention, or was deleted, during the wait. Set a retention to read
 * results.
 */
class TaskGone extends ProblemException
{
}
