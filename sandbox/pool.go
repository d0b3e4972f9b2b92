package sandbox

import "context"

// PoolStatus is the state of a pool, and its counts so far.
type PoolStatus struct {
	Profile string `json:"profile"`
	Ready   int    `json:"ready"`           // containers that wait for a command
	Making  int    `json:"making"`          // containers that are being made
	Target  int    `json:"target"`          // how many should be ready: from min to max, depending on use
	Made    int    `json:"made"`            // in total
	Used    int    `json:"used"`            // given to a command
	Missed  int    `json:"missed"`          // commands that found none
	Lost    int    `json:"lost"`            // ended, hung or stopped answering before they were used
	Drained int    `json:"drained"`         // removed because of age, because the image changed, or with its node, which is being drained
	Error   string `json:"error,omitempty"` // why the last try to make one failed
	Cause   Cause  `json:"cause,omitempty"` // of Error; CauseBusy: there is no room for one now
}

// Pools are the containers that a Runner keeps warm.
type Pools interface {
	// Pools is the state of the pools, by profile.
	Pools(ctx context.Context) ([]PoolStatus, error)
}
