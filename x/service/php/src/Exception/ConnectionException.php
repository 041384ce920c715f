<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The service is unreachable or did not respond in time. The request may have taken effect. */
class ConnectionException extends AsynqException
{
}
