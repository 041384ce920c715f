<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** All exceptions that this package throws at its callers. */
class AsynqException extends \RuntimeException
{
}
