package net.javacrumbs.shedlock.spring.annotation;

public @interface EnableSchedulerLock {
  String defaultLockAtMostFor();
}
