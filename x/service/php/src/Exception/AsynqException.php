<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** Base class of the exceptions of this package. */
class AsynqException extends \RuntimeException
{
}
