package net.javacrumbs.shedlock.spring.annotation;

public @interface SchedulerLock {
  String name();

  String lockAtMostFor();

  String lockAtLeastFor();
}
