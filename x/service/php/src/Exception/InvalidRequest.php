<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The request makes no sense: see $problems. The same again fails again. */
class InvalidRequest extends ProblemException
{
}
