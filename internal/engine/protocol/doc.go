// Package protocol has the messages between an engine and its shell, which package engine's methods exchange. A
// [Config] says how the engines of a client decide. A goroutine names its [Terms] and its [Want]. The shell's next
// steps come back, each as an [Effect]. One of these, [Send], is a request to the store, and a [Reply] is the outcome of that.
package protocol
