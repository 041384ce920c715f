<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The token is unknown (401) or lacks access (403). */
class AccessDenied extends ProblemException
{
}
