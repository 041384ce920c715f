<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** What is there does not allow it (409). */
class Conflict extends ProblemException
{
}
