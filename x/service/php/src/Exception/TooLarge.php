<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The request exceeds a size limit of the service. */
class TooLarge extends ProblemException
{
}
