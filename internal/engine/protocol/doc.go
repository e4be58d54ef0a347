// Package protocol has the messages between an engine and its shell, for package engine's methods. A [Config] has a client's
// settings. A goroutine gives its [Terms] and its [Want]. The engine returns the shell's next steps, each an [Effect]. The
// effect [Send] is a request to the store, and a [Reply] is its outcome.
package protocol
