<?php

declare(strict_types=1);

// Autoloader for programs without Composer.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Asynq\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, 6), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
