<?php

declare(strict_types=1);

namespace Asynq\Exception;

/** The task ended and was not kept, or was deleted, while you waited. Give tasks a retention to see how they end. */
class TaskGone extends ProblemException
{
}
