<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The service cannot do it now, or has had too many requests: try again after $retryAfter seconds. */
class Unavailable extends ProblemException
{
}
