//go:build !no_consul

package main

import _ "github.com/stilelock/stile/store/consul"
