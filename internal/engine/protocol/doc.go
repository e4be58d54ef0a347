// Package protocol is what is said between an engine and whoever runs it, by way of package engine's methods. A [Config] says
// how the engines of a client decide. A goroutine names its [Terms] and what it [Want]s. What is to be done comes back as
// [Effect]s. One of them, [Send], has a request sent to the store, and a [Reply] says what became of that.
package protocol
