<?php

declare(strict_types=1);

namespace Asynq;

/**
 * Thrown by a handler to fail the attempt and set the retry delay. The attempt counts as failed.
 */
class RetryLater extends \RuntimeException
{
    /** @param int|float|string $in seconds, or a duration such as "1m30s" */
    public function __construct(public readonly int|float|string $in, string $message = 'try again later', ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
