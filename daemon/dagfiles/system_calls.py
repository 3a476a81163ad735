"""The system calls that the filter of a sandbox refuses, with their numbers on x86-64, and on arm64 and RISC-V, which share them.

Call numbers never change.
"""

from collections.abc import Mapping

Numbers = Mapping[str, tuple[int | None, int | None]]

SOCKETS: Numbers = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
}

RINGS: Numbers = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
}
"""Calls whose arguments a filter does not see. The C library does without `clone3`."""

PROCESSES: Numbers = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "perf_event_open": (298, 241),
}
"""Memory, descriptors and behaviour of other processes."""

KERNEL: Numbers = {
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
}
"""The kernel itself, and the keys that it keeps for a user."""

MOUNTS: Numbers = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}
"""Namespaces, mounts, and files by another way than their names."""

SHARED: Numbers = {
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "fanotify_init": (300, 262),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
}
"""Memory and queues that processes share by number or name, and news of files, which Landlock leaves open."""

ATTRIBUTES: Numbers = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
}
"""Modes, owners and times of files, which Landlock leaves open."""

EXTENDED_ATTRIBUTES: Numbers = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}

SIGNALS: Numbers = {
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
"""Signals, apart from `kill` and `tgkill`."""

BY_ARGUMENT: Numbers = {
    "clone": (56, 220),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "truncate": (76, 45),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
"""Calls that are refused with some arguments only, or on some hosts only."""
