package external

import "golang.org/x/sys/unix"

// waitable returns true when a process has ended. Its end is not collected.
func waitable(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
