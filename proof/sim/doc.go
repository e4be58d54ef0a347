// Package sim has the tests of package stile that need a world: a store in memory and several clients of it, in virtual
// time. Some play one scene, and some draw thousands of them from seeds.
package sim
