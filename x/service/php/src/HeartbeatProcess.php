<?php

declare(strict_types=1);

namespace Asynq;

/**
 * A heartbeat in a separate process, which extends leases even while a handler blocks, for example
 * in a long query. It exits when the worker does, because its standard input closes.
 *
 * @internal
 */
final class HeartbeatProcess implements Heartbeat
{
    /** @var ?resource */
    private $process = null;
    /** @var array<int, resource> */
    private array $pipes = [];
    private string $rest = '';
    /** @var list<Task> */
    private array $tasks = [];
    /** @var array<string, string> reason to stop, by lease */
    private array $troubles = [];

    public function __construct(private readonly Client $client)
    {
        $this->start();
    }

    /** Reports whether PHP can start processes. */
    public static function possible(): bool
    {
        return PHP_SAPI === 'cli' && PHP_BINARY !== '' && function_exists('proc_open');
    }

    private function start(): void
    {
        $this->rest = '';
        $process = proc_open(
            [PHP_BINARY, __DIR__ . '/heartbeat_process.php'],
            [['pipe', 'r'], ['pipe', 'w'], STDERR],
            $this->pipes,
        );
        if ($process === false) {
            throw new \RuntimeException('cannot start the heartbeat process: see the option heartbeat of Worker');
        }
        $this->process = $process;
        stream_set_blocking($this->pipes[1], false);
        $this->send($this->client->settings()); // not as an argument, which other users can read
    }

    /** @param array<string, mixed> $message */
    private function send(array $message): bool
    {
        $line = base64_encode(serialize($message)) . "\n";
        for ($at = 0; $at < strlen($line); $at += $n) {
            $n = @fwrite($this->pipes[0], substr($line, $at));
            if ($n === false || $n === 0) {
                return false;
            }
        }
        return true;
    }

    public function watch(array $tasks): void
    {
        $this->tasks = $tasks;
        $leases = array_map(static fn (Task $t): string => $t->lease, $tasks);
        $this->troubles = array_intersect_key($this->troubles, array_flip($leases));
        $message = ['leases' => $leases, 'interval' => HeartbeatLoop::interval($tasks)];
        if (!$this->send($message)) {
            $this->restart();
        }
    }

    /** Restarts the process after it was killed. */
    private function restart(): void
    {
        $this->stop();
        $this->start();
        $this->send([
            'leases' => array_map(static fn (Task $t): string => $t->lease, $this->tasks),
            'interval' => 0.0, // heartbeats may have been missed
        ]);
    }

    public function beat(): void
    {
        $this->rest .= (string) stream_get_contents($this->pipes[1]);
        if (feof($this->pipes[1])) {
            $this->restart();
            return;
        }
        while (($end = strpos($this->rest, "\n")) !== false) {
            $this->troubles += (array) json_decode(substr($this->rest, 0, $end), true);
            $this->rest = substr($this->rest, $end + 1);
        }
    }

    public function trouble(string $lease): ?string
    {
        return $this->troubles[$lease] ?? null;
    }

    public function stop(): void
    {
        if ($this->process === null) {
            return;
        }
        array_map(fclose(...), $this->pipes);
        proc_terminate($this->process, 9); // has no state to save
        proc_close($this->process);
        $this->process = null;
    }

    public function __destruct()
    {
        $this->stop();
    }
}
