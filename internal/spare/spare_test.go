package spare

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each thing is taken once or discarded, those that could not be made are tried again, and
// no more are made than there is room for, and one.
func TestStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, discarded atomic.Int32
		s := New(3, func() (int32, error) {
			n := made.Add(1)
			if n == 2 {
				return 0, errors.New("the disk is full")
			}
			return n, nil
		}, func(int32) { discarded.Add(1) })
		if _, ok := s.Take(); ok {
			t.Error("one is ready before Fill")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.Fill(ctx)
		synctest.Wait()
		if n := made.Load(); n != 2 {
			t.Errorf("%d tries while none can be made, want 2", n)
		}
		time.Sleep(retry)
		synctest.Wait()
		for want := range int32(3) {
			if got, ok := s.Take(); !ok || got == 2 || got < want+1 {
				t.Errorf("%d, %v", got, ok)
			}
		}
		time.Sleep(2 * pause)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if made.Load()-1 != 3+discarded.Load() {
			t.Errorf("%d were made, and %d discarded", made.Load(), discarded.Load())
		}
		if _, ok := s.Take(); ok {
			t.Error("one is left")
		}
	})
}
