<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The service is temporarily unavailable or limits the rate: retry after $retryAfter seconds. */
class Unavailable extends ProblemException
{
}
