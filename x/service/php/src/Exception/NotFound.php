<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The task or queue does not exist. */
class NotFound extends ProblemException
{
}
