<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The service could not be reached, or did not answer in time. Whether it did what was asked is not known. */
class ConnectionException extends AsynqException
{
}
