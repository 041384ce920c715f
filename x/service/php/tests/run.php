<?php

declare(strict_types=1);

// Runs the tests in this directory against the service at ASYNQ_URL with ASYNQ_TOKEN, and
// ASYNQ_READ_TOKEN, a token with the scope read only. go test ./e2e in x/service starts a service
// behind a proxy that drops connections.
//
//     php tests/run.php [NAME]      runs only tests whose names contain NAME

require __DIR__ . '/../autoload.php';
require __DIR__ . '/check.php';

set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    return (error_reporting() & $level) === 0 ? true : throw new ErrorException($message, 0, $level, $file, $line);
});

$failed = 0;
$run = 0;
foreach (glob(__DIR__ . '/*_test.php') as $file) {
    foreach (require $file as $name => $test) {
        if (!str_contains($name, $argv[1] ?? '')) {
            continue;
        }
        $run++;
        $start = microtime(true);
        try {
            $test();
            printf("ok   %s (%.2f s)\n", $name, microtime(true) - $start);
        } catch (Throwable $e) {
            $failed++;
            printf("FAIL %s: %s\n%s\n", $name, $e->getMessage(), $e->getTraceAsString());
        }
    }
}
printf("%d tests, %d failed\n", $run, $failed);
exit($failed > 0 || $run === 0 ? 1 : 0);
