<?php

declare(strict_types=1);

namespace Asynq;

/**
 * Converts durations and times to and from the format of the service.
 *
 * @internal
 */
final class Format
{
    /** Formats seconds; returns strings unchanged. */
    public static function duration(int|float|string|null $d): ?string
    {
        return $d === null || is_string($d) ? $d : sprintf('%.3Fs', $d);
    }

    public static function time(?\DateTimeInterface $t): ?string
    {
        return $t?->format('Y-m-d\TH:i:s.uP');
    }

    /** Parses a time, truncated to microseconds, which is the precision of PHP. */
    public static function parse(?string $text): ?\DateTimeImmutable
    {
        return $text === null ? null : new \DateTimeImmutable((string) preg_replace('/(\.\d{6})\d+/', '$1', $text));
    }
}
