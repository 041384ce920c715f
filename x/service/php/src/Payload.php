<?php

declare(strict_types=1);

namespace Asynq;

/** A payload or a result that is no JSON value: text that is not to be encoded again, or any bytes. */
final readonly class Payload
{
    private function __construct(public string $bytes, private bool $text)
    {
    }

    /** Text in UTF-8, kept as it is. */
    public static function text(string $text): self
    {
        return new self($text, true);
    }

    /** Any bytes. */
    public static function bytes(string $bytes): self
    {
        return new self($bytes, false);
    }

    /**
     * The field of a request that holds a value.
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
     * The value in an answer: what JSON decodes to (objects as stdClass), or a Payload of what is no JSON, or null.
     *
     * @internal
     */
    public static function of(object $from, string $name): mixed
    {
        return match (true) {
            ($from->{$name . '_text'} ?? null) === '' => null, // what has no bytes is none
            isset($from->{$name . '_text'}) => self::text($from->{$name . '_text'}),
            isset($from->{$name . '_base64'}) => self::bytes((string) base64_decode($from->{$name . '_base64'}, true)),
            default => $from->{$name} ?? null,
        };
    }

    /**
     * The same with objects as arrays.
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
