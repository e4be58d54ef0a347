package goredis

import (
	"context"
	"errors"
	"net"
	"reflect"
	"runtime"
	"strings"
	"unsafe"

	"github.com/redis/go-redis/v9"
)

// go-redis fills in the options that a program left out, and does not show which ones the program set. So its own functions
// are recognized by their names. A test with the linked version checks that each name differs from a program's own.

// named returns the name of a function in the runtime; empty for nil.
func named(f any) string {
	v := reflect.ValueOf(f)
	if v.IsNil() {
		return ""
	}
	return runtime.FuncForPC(v.Pointer()).Name()
}

// ofLibrary begins the names of the functions of go-redis.
const ofLibrary = "github.com/redis/go-redis/v9."

// ownDialer reports whether a dialer is the program's own.
func ownDialer(f func(context.Context, string, string) (net.Conn, error)) bool {
	name := named(f)
	return name != "" && !(strings.HasPrefix(name, ofLibrary) && strings.Contains(name, "NewDialer.func"))
}

// ownNewClient reports whether the function that makes the clients of a cluster's servers is the program's own.
func ownNewClient(f func(*redis.Options) *redis.Client) bool {
	name := named(f)
	return name != "" && name != ofLibrary+"NewClient"
}

var (
	errHooks = errors.New("goredis: the client has hooks, which cannot be carried over to the connections of the locks: " +
		"IgnoreHooks opens them without")
	errUnknownHooks = errors.New("goredis: this version of go-redis does not tell whether the client has hooks: " +
		"IgnoreHooks opens the connections of the locks without them")
)

// unhooked refuses a client with hooks. They are in a field that is not exported: a list, or in newer versions a pointer to
// a state with the list, which is read as the library reads it.
func unhooked(client redis.UniversalClient) error {
	mixin := reflect.ValueOf(client).Elem().FieldByName("hooksMixin")
	if !mixin.IsValid() {
		return errUnknownHooks
	}
	list := mixin.FieldByName("slice")
	if state := mixin.FieldByName("state"); state.IsValid() && state.Kind() == reflect.Pointer && !state.IsNil() {
		load := reflect.NewAt(state.Type(), unsafe.Pointer(state.UnsafeAddr())).Elem().MethodByName("Load")
		if !load.IsValid() || load.Type().NumIn() != 0 || load.Type().NumOut() != 1 {
			return errUnknownHooks
		}
		loaded := load.Call(nil)[0]
		if loaded.Kind() != reflect.Pointer {
			return errUnknownHooks
		}
		if loaded.IsNil() {
			return nil
		}
		list = loaded.Elem().FieldByName("slice")
	}
	switch {
	case !list.IsValid() || list.Kind() != reflect.Slice:
		return errUnknownHooks
	case list.Len() > 0:
		return errHooks
	}
	return nil
}
