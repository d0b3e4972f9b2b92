package sandbox

import "context"

// PoolStatus is what a pool has and did so far.
type PoolStatus struct {
	Profile string
	Ready   int    // containers that wait for a command
	Making  int    // that are being made
	Target  int    // how many are to be ready: from min to max, as they are used up
	Made    int    // in all
	Used    int    // given to a command
	Missed  int    // commands that found none
	Lost    int    // ended, stood still or stopped answering before they were used
	Drained int    // removed for their age, or because the image changed
	Error   string // why none could be made when it was last tried
}

// Pools are the containers that a Runner keeps warm.
type Pools interface {
	// Pools tells how they are doing, by profile.
	Pools(ctx context.Context) ([]PoolStatus, error)
}
