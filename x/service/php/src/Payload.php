<?php

declare(strict_types=1);

namespace Asynq;

/** A payload or result that is not JSON: text or bytes. */
final readonly class Payload
{
    private function __construct(public string $bytes, private bool $text)
    {
    }

    /** UTF-8 text, stored unchanged. */
    public static function text(string $text): self
    {
        return new self($text, true);
    }

    /** Arbitrary bytes. */
    public static function bytes(string $bytes): self
    {
        return new self($bytes, false);
    }

    /**
     * Returns the request field that holds a value.
     *
     * @internal
     * @return array<string, mixed>
     */
    public static function field(string $name, mixed $value): array
    {
        return match (true) {
            $value === null => [],
            !$value instanceof self => [$name => $value],
            $value->text => [$name . '_text' => $value->bytes],
            default => [$name . '_base64' => base64_encode($value->bytes)],
        };
    }

    /**
     * Returns the value of a response field: decoded JSON (objects as stdClass), a Payload, or
     * null.
     *
     * @internal
     */
    public static function of(object $from, string $name): mixed
    {
        return match (true) {
            ($from->{$name . '_text'} ?? null) === '' => null, // empty means no value
            isset($from->{$name . '_text'}) => self::text($from->{$name . '_text'}),
            isset($from->{$name . '_base64'}) => self::bytes((string) base64_decode($from->{$name . '_base64'}, true)),
            default => $from->{$name} ?? null,
        };
    }

    /**
     * Converts objects to arrays.
     *
     * @internal
     */
    public static function arrays(mixed $value): mixed
    {
        return match (true) {
            $value instanceof self => $value,
            is_object($value) => array_map(self::arrays(...), get_object_vars($value)),
            is_array($value) => array_map(self::arrays(...), $value),
            default => $value,
        };
    }
}
