package ui

// Keep is for tests of pages.
var Keep = keep
