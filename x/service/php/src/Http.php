<?php

declare(strict_types=1);

namespace Asynq;

use Asynq\Exception\ConnectionException;
use Asynq\Exception\NotFound;
use Asynq\Exception\ProblemException;
use Asynq\Exception\Unavailable;

/**
 * Sends JSON requests over one persistent connection.
 *
 * @internal
 */
final class Http
{
    private const JSON = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;
    private const FIRST_PAUSE = 0.1;
    private const LAST_PAUSE = 5.0;

    private ?\CurlHandle $handle = null;
    private ?float $retryAfter = null;

    /** @param array<int, mixed> $curlOptions */
    public function __construct(
        private readonly string $url,
        #[\SensitiveParameter] private readonly string $token,
        private readonly float $timeout,
        private readonly float $retryFor,
        private readonly array $curlOptions,
    ) {
        if (preg_match('#^https?://[^/]#', $url) !== 1) {
            throw new \InvalidArgumentException('the URL of the service must begin with http:// or https://');
        }
    }

    /**
     * Sends a request and retries it until there is a response, at most retryFor seconds. If the
     * retry of a deletion finds nothing, an earlier attempt has deleted it.
     *
     * @param ?array<string, mixed> $body
     */
    public function repeat(string $method, string $path, ?array $body = null, float $wait = 0): ?object
    {
        $end = microtime(true) + $this->retryFor;
        for ($pause = self::FIRST_PAUSE;; $pause *= 2) {
            try {
                return $this->once($method, $path, $body, $wait);
            } catch (NotFound $e) {
                if ($method !== 'DELETE' || $pause === self::FIRST_PAUSE) {
                    throw $e;
                }
                return null;
            } catch (ConnectionException | Unavailable $e) {
                $sleep = self::pause($pause, $e);
                if (microtime(true) + $sleep > $end) {
                    throw $e;
                }
                usleep((int) ($sleep * 1e6));
            }
        }
    }

    /** Returns the backoff with jitter, or a longer Retry-After. */
    public static function pause(float $pause, \Throwable $cause): float
    {
        $asked = $cause instanceof Unavailable ? (float) $cause->retryAfter : 0.0;
        return max($asked, min($pause, self::LAST_PAUSE) * random_int(500, 1000) / 1000);
    }

    /**
     * Sends a request once. $wait is added to the timeout. If $stop returns true before the
     * response begins, the request is aborted.
     *
     * @param ?array<string, mixed> $body
     * @param ?callable(): bool $stop
     */
    public function once(string $method, string $path, ?array $body = null, float $wait = 0, ?callable $stop = null): ?object
    {
        $curl = $this->handle ??= $this->open();
        $this->retryAfter = null;
        $headers = ['Authorization: Bearer ' . $this->token, 'Accept: application/json', 'Expect:'];
        if ($body !== null) {
            $headers[] = 'Content-Type: application/json';
        }
        curl_setopt_array($curl, [
            CURLOPT_URL => rtrim($this->url, '/') . $path,
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_TIMEOUT_MS => (int) (1000 * ($this->timeout + $wait)),
            CURLOPT_NOPROGRESS => $stop === null,
            CURLOPT_FRESH_CONNECT => $method === 'DELETE', // libcurl repeats requests on reused connections unnoticed
        ]);
        curl_setopt($curl, $body === null ? CURLOPT_HTTPGET : CURLOPT_POST, true);
        if ($body !== null) {
            curl_setopt($curl, CURLOPT_POSTFIELDS, self::encode($body));
        }
        curl_setopt($curl, CURLOPT_CUSTOMREQUEST, $method);
        if ($stop !== null) {
            curl_setopt($curl, CURLOPT_XFERINFOFUNCTION, static fn ($c, int $size, int $got): int => $got === 0 && $stop() ? 1 : 0);
        }
        $text = curl_exec($curl);
        if (!is_string($text)) {
            $error = curl_error($curl);
            $this->close(); // a late response must not be read by the next request
            throw new ConnectionException("$method $path: " . ($error !== '' ? $error : 'no response'));
        }
        $status = (int) curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $response = $text === '' ? null : json_decode($text, false, 512, JSON_BIGINT_AS_STRING);
        if ($status >= 200 && $status < 300) {
            if ($text !== '' && !is_object($response)) {
                throw new ConnectionException("$method $path: unexpected response, not from the queue service");
            }
            return $response;
        }
        throw ProblemException::of($response, $status, $this->retryAfter);
    }

    /** @param array<string, mixed> $body */
    public static function encode(array $body): string
    {
        return json_encode((object) $body, self::JSON);
    }

    public function close(): void
    {
        $this->handle = null;
    }

    private function open(): \CurlHandle
    {
        $curl = curl_init();
        curl_setopt_array($curl, $this->curlOptions + [
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_CONNECTTIMEOUT_MS => 5000,
            CURLOPT_TCP_KEEPALIVE => 1,
            CURLOPT_TCP_NODELAY => true,
            CURLOPT_FOLLOWLOCATION => false, // do not send the token to another host
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_USERAGENT => 'asynq-php',
            CURLOPT_HEADERFUNCTION => function ($curl, string $line): int {
                if (preg_match('/^retry-after:\s*(\d+)/i', $line, $m) === 1) {
                    $this->retryAfter = (float) $m[1];
                }
                return strlen($line);
            },
        ]);
        return $curl;
    }
}
