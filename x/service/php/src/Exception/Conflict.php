<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The current state does not allow the request (409). */
class Conflict extends ProblemException
{
}
