//go:build !no_zookeeper

package main

import _ "github.com/stilelock/stile/store/zookeeper"
