<?php

declare(strict_types=1);

// The process of HeartbeatProcess. It reads messages from the worker as lines; the first one holds
// the settings of the client.

require __DIR__ . '/../autoload.php';

$read = static function (): ?array {
    $line = fgets(STDIN);
    return $line === false ? null : unserialize((string) base64_decode($line), ['allowed_classes' => false]);
};

if (function_exists('pcntl_signal')) { // the worker handles signals and still needs its leases
    pcntl_signal(SIGINT, SIG_IGN);
    pcntl_signal(SIGTERM, SIG_IGN);
}
$settings = $read() ?? exit(0);
$client = new Asynq\Client($settings['url'], $settings['token'], timeout: 5.0, retryFor: 0.0, curlOptions: $settings['curl']);
$loop = new Asynq\HeartbeatLoop($client);
$reported = [];
while (true) {
    $ready = [STDIN];
    $none = [];
    $wait = max(0.0, min($loop->due(), 3600.0));
    $n = @stream_select($ready, $none, $none, (int) $wait, (int) (1e6 * fmod($wait, 1)));
    if ($n === 1) {
        $message = $read();
        if ($message === null) {
            exit(0); // the worker has exited
        }
        $loop->hold($message['leases'], $message['interval']);
        $reported = array_intersect_key($reported, $loop->troubles());
    }
    $loop->beat();
    $news = array_diff_key($loop->troubles(), $reported);
    if ($news !== []) {
        fwrite(STDOUT, json_encode($news, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
        $reported += $news;
    }
}
