<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** There is no such task or queue. */
class NotFound extends ProblemException
{
}
