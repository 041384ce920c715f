<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The request is invalid: see $problems. Retrying it does not help. */
class InvalidRequest extends ProblemException
{
}
