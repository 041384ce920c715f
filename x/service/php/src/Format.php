<?php

declare(strict_types=1);

namespace Asynq;

/**
 * Durations and times as the service writes them.
 *
 * @internal
 */
final class Format
{
    /** Seconds, or text that is a duration already. */
    public static function duration(int|float|string|null $d): ?string
    {
        return $d === null || is_string($d) ? $d : sprintf('%.3Fs', $d);
    }

    public static function time(?\DateTimeInterface $t): ?string
    {
        return $t?->format('Y-m-d\TH:i:s.uP');
    }

    /** A time of the service, to the microsecond: PHP knows no nanoseconds. */
    public static function parse(?string $text): ?\DateTimeImmutable
    {
        return $text === null ? null : new \DateTimeImmutable((string) preg_replace('/(\.\d{6})\d+/', '$1', $text));
    }
}
