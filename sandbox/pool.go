package sandbox

import "context"

// PoolStatus is what a pool has and did so far.
type PoolStatus struct {
	Profile string `json:"profile"`
	Ready   int    `json:"ready"`           // containers that wait for a command
	Making  int    `json:"making"`          // containers that are being made
	Target  int    `json:"target"`          // how many should be ready: from min to max, depending on use
	Made    int    `json:"made"`            // in all
	Used    int    `json:"used"`            // given to a command
	Missed  int    `json:"missed"`          // commands that found none
	Lost    int    `json:"lost"`            // ended, stood still or stopped answering before they were used
	Drained int    `json:"drained"`         // removed for their age, or because the image changed
	Error   string `json:"error,omitempty"` // why none could be made when it was last tried
}

// Pools are the containers that a Runner keeps warm.
type Pools interface {
	// Pools is the state of the pools, by profile.
	Pools(ctx context.Context) ([]PoolStatus, error)
}
