<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The request is longer than the service allows. */
class TooLarge extends ProblemException
{
}
