<?php

declare(strict_types=1);

namespace Asynq;

/** A handler throws it: do not try again. The task is archived, whatever attempts it has left. */
class Abandon extends \RuntimeException
{
}
